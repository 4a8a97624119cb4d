"""Y - N and its projection on the row space of X, kept up to date while N changes."""

import numpy as np
import scipy.sparse as sp

from schirn.linalg.row_space import RowSpace

Array = np.ndarray


class CandidateCells:
    """The candidate cells of Y, which of them are noise, and the kept labels Y - N.

    Attributes
    ----------
    stack : (n + r, l) with contiguous columns: Y - N, and below it F'(Y - N)
    kept, kept_f : the two parts of `stack`
    noise : which candidate cells are noise
    """

    def __init__(self, Y: Array, space: RowSpace):
        self.space, self.shape = space, Y.shape
        self._label, self._row = np.nonzero(Y.T)
        self.n_cells = len(self._row)
        self.noise = np.zeros(self.n_cells, dtype=bool)
        n = space.shape[0]
        self.stack = np.zeros((sum(space.shape), Y.shape[1]), dtype=space.dtype, order="F")
        self.kept, self.kept_f = self.stack[:n], self.stack[n:]
        self.kept[...] = Y != 0
        self.kept_f[...] = space.project(self.kept)

    def at(self, M: Array) -> Array:
        """The values of M at the candidate cells; M has n rows or more."""
        if M.flags.f_contiguous:
            return M.T.reshape(-1)[self._label * len(M) + self._row]
        return M[self._row, self._label]

    def update(self, noise: Array) -> int:
        """Take over the new noise cells; return how many changed."""
        changed = np.flatnonzero(noise != self.noise)
        if not len(changed):
            return 0
        where = self._row[changed], self._label[changed]
        step = np.where(noise[changed], -1, 1).astype(self.stack.dtype)
        self.kept[where] += step
        if len(changed) * 4 > self.kept.size:
            self.kept_f[...] = self.space.project(self.kept)
        else:
            self.kept_f += self.space.project(sp.csr_array((step, where), shape=self.shape))
        self.noise = noise
        return len(changed)

    def matrix(self) -> Array:
        """N as a boolean matrix."""
        N = np.zeros(self.shape, dtype=bool)
        N[self._row[self.noise], self._label[self.noise]] = True
        return N
