"""Information of models whose rows are in groups, within which the mean is free."""

import numpy as np
from scipy.sparse import csr_array

from ...information.entry_scores import EntryScores, TableEntries
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

    def entry_means(self, columns):
        X, plan = self.rows.session.products, self.rows.plan
        sums = X.labelled(columns, self.h, X.labels(plan.group_idx, self.n_atoms, plan.ptr))
        sums[:, self._has_weight] /= self.atom_weight[self._has_weight]
        sums[:, ~self._has_weight] = 0.0
        return sums

    def entry_scores(self):
        u = self.rows.session.u
        shares = [TableEntries(self.rows.plan.group_idx, -u, self.n_atoms)]
        return EntryScores(u, shares, lambda columns: self.entry_means(columns).T)

    def h_of(self, factor):
        return self.h * factor[self.rows.plan.group_idx]

    def scores(self, x):
        return (x - self.means(x)[self.rows.plan.group_idx]) * self.rows.session.u[:, None]
