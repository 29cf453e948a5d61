"""Adds to every case of a file of published optima what the slow references make of it.

Run:  python certify.py competing.json

`kkt` is the largest violation of the optimality conditions on the sum scale, `coef_error` the
largest entry of the Newton step that would remove it.  An optimum that is not good enough, or whose
log-likelihood is another one, is refused.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from oracles.cases import read_case

LARGEST_ERROR = {"unpenalized": 1e-8, "penalized": 1e-7}


def certify(published):
    refused = []
    for case in published["cases"]:
        optimum = read_case(published["datasets"], case)
        case["kkt"], case["coef_error"] = float(optimum.kkt()), float(optimum.coef_error())
        gap = abs(optimum.evaluation.loglik - case["loglik"]) if "loglik" in case else 0.0
        kind = "penalized" if case["lam"] > 0 else "unpenalized"
        line = f"{case['name']:45s} kkt {case['kkt']:.1e}  error of coefficients "
        line += f"{case['coef_error']:.1e}  of the log-likelihood {gap:.1e}"
        print(line)
        if not case["coef_error"] <= LARGEST_ERROR[kind] or not gap <= 1e-8:
            refused.append(line)
    if refused:
        raise SystemExit("Refused:\n" + "\n".join(refused))


def dump(value):
    return json.dumps(value, separators=(",", ":"))


def write(published, path):
    """One data set or case a line, for readable diffs."""
    lines = []
    for name, value in published.items():
        if isinstance(value, dict):
            items = [f"{json.dumps(k)}: {dump(v)}" for k, v in value.items()]
            body = "{\n" + ",\n".join(items) + "\n}"
        elif isinstance(value, list):
            body = "[\n" + ",\n".join(dump(item) for item in value) + "\n]"
        else:
            body = dump(value)
        lines.append(f"{json.dumps(name)}: {body}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    published = json.loads(path.read_text(encoding="utf-8"))
    certify(published)
    write(published, path)
