"""Adam on one flat vector of parameters, in place."""

import numpy as np

Array = np.ndarray


class Adam:
    """Adam steps with an L2 weight decay added to the gradient."""

    def __init__(
        self,
        parameters: Array,
        learning_rate: float,
        weight_decay: float = 0.0,
        decays: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        self.parameters = parameters
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.decays, self.eps = decays, eps
        self.mean, self.square = np.zeros_like(parameters), np.zeros_like(parameters)
        self._scratch = np.empty_like(parameters)
        self.n_steps = 0

    def step(self, gradient: Array) -> None:
        """Move the parameters; `gradient` is used as working space."""
        self.n_steps += 1
        first, second = self.decays
        np.multiply(self.parameters, self.weight_decay, out=self._scratch)
        gradient += self._scratch
        self.mean *= first
        np.multiply(gradient, 1 - first, out=self._scratch)
        self.mean += self._scratch
        self.square *= second
        gradient *= gradient
        gradient *= 1 - second
        self.square += gradient
        # lr (mean / (1 - first^t)) / (sqrt(square / (1 - second^t)) + eps)
        np.sqrt(self.square, out=gradient)
        gradient /= np.sqrt(1 - second**self.n_steps)
        gradient += self.eps
        np.divide(self.mean, gradient, out=self._scratch)
        self._scratch *= self.learning_rate / (1 - first**self.n_steps)
        self.parameters -= self._scratch
