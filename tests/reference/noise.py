"""The noise model of a whole matrix of candidates and its posterior."""

from schirn.noise.model import NoiseSums, noise_from_sums


def update_noise(Y, posterior):
    sums = NoiseSums(len(Y), Y.sum(axis=0), posterior.Q.sum(axis=0), *posterior[1:])
    return noise_from_sums(sums)
