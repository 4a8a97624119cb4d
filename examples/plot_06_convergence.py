"""How Schirn converges
=======================

The objective of `Schirn`, its primal residual and the number of candidates it calls noise, round
by round. The objective first falls fast, because it starts far from the optimum, and rises again
once the penalty has grown. Candidates are removed late, in the last twenty rounds.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import Schirn
from schirn.datasets import load_digits_attributes

rows = 300 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2).subset(range(rows))
X = digits.X / 16

figure, panels = plt.subplots(1, 3, figsize=(10, 3.4))
for alpha in (0.0, 0.2, 0.6):
    model = Schirn(alpha=alpha, lam=1.0).fit(X, digits.candidates)
    rounds = np.arange(1, model.n_iter_ + 1)
    panels[0].plot(rounds, model.objective_, label=f"alpha = {alpha}")
    panels[1].plot(rounds, model.residual_)
    panels[2].plot(rounds, model.n_noise_)
panels[0].set(yscale="log", title="objective", xlabel="round")
panels[1].set(yscale="log", title="distance of XW from C", xlabel="round")
panels[2].set(title="candidates called noise", xlabel="round")
panels[0].legend()

# %%
# The paper runs 100 rounds. That is not convergence: the objective still changes in the last ten.

change = abs(model.objective_[-1] - model.objective_[-11]) / abs(model.objective_[-1])
print(f"the objective changes by {change:.1%} in the last ten rounds")
