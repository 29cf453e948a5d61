"""placeholder"""
def descend_exactly(*a):
    raise SystemExit
