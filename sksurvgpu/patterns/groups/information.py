"""Information of models whose rows are in groups, within which the mean is free."""

import numpy as np
from scipy.sparse import csr_array

from ...information.entry_scores import EntryScores, runs_of, sums_by_line
from ...information.views import MeanView


class GroupView(MeanView):
    """Models without time: rows in groups, within which the mean is free."""

    adds_entries = True

    def __init__(self, rows):
        super().__init__(rows)
        session, plan = rows.session, rows.plan
        self.h = np.empty(len(session.eta))
        session.pattern.observe(session.eta, session.u, self.h)
        self._member = csr_array((self.h, np.arange(plan.n_rows), plan.ptr))
        self.atom_weight = self._member.sum(axis=1)
        self._has_weight = self.atom_weight > 0
        self.n_atoms = len(self.atom_weight)

    def means(self, x):
        sums = self._member @ x
        sums[self._has_weight] /= self.atom_weight[self._has_weight, None]
        sums[~self._has_weight] = 0.0
        return sums

    def entry_runs(self, columns):
        X, group, weight = self.rows.session.products, self.rows.plan.group_idx, self.atom_weight
        for low, high in runs_of(self.n_atoms, len(columns)):
            own, has_weight = slice(low, high), self._has_weight[low:high]
            h = self.h * ((group >= low) & (group < high))
            sums = sums_by_line(X, columns, h, group, low, high)
            sums[:, has_weight] /= weight[own][has_weight]
            sums[:, ~has_weight] = 0.0
            yield low, high, own, sums

    def entry_scores(self):
        def tables(columns):
            return ((low, high, mean.T) for low, high, _, mean in self.entry_runs(columns))

        u = self.rows.session.u
        return EntryScores(u, self.rows.plan.group_idx, [-u], self.n_atoms, tables)

    def h_of(self, factor):
        return self.h * factor[self.rows.plan.group_idx]

    def scores(self, x):
        return (x - self.means(x)[self.rows.plan.group_idx]) * self.rows.session.u[:, None]
