"""Information of generalized linear models; all rows are a group where there is an intercept."""

import numpy as np

from ..groups.information import GroupView


class RowView(GroupView):
    """Generalized linear models; all rows are one group where there is an intercept."""

    def __init__(self, rows):
        super().__init__(rows)
        self.is_free = self.adds_entries = rows.problem.likelihood.intercept

    def means(self, x):
        return super().means(x) if self.is_free else np.zeros((1, x.shape[1]))

    def traces(self, inverse):
        """Without an intercept, or with one that is a column, of which h is a function."""
        blocks, leverage = self._pair_blocks(), np.zeros(self.rows.plan.n_rows)
        for J in blocks:
            x = self.rows.block(J)
            for K in blocks:
                z = x if K is J else self.rows.block(K)
                leverage += np.einsum("ij,ij->i", z @ inverse[np.ix_(K, J)], x)
        slope = self.rows.problem.likelihood.curvature_slope(self.rows.session.eta)
        return self.rows.slopes(leverage * slope * self.rows.weight)
