"""Matched sets in partitions that have them as a whole."""

from ...backends.sums.joined import Joining
from ..groups.part import GroupsInPart, JoinedGroups


class SubsetsInPart(GroupsInPart):
    """Matched sets, whose kernels begin where the evaluation before has ended."""

    def _evaluate(self, eta):
        self.pattern.sets.tau[:] = 0.0  # answers depend on messages alone
        return super()._evaluate(eta)


class JoinedSets(JoinedGroups):
    """Joins what partitions say of whole sets; of their information there are no sums."""

    information = Joining.information
