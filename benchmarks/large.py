"""Sieve on many rows, with the kernel approximated from landmarks: time, peak memory and quality.

python -m benchmarks.large --rows 50000 --features 500 --labels 100

Quality is average precision on test rows and the AUC of finding wrong candidates.
"""

import argparse
import time
import warnings

import numpy as np

from benchmarks.measure import peak_gigabytes
from schirn import Sieve
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import average_precision, noise_auc


def main() -> None:
    """Fit once and print time, memory and quality."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--labels", type=int, default=100)
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    data = make_partial_multilabel(
        n_samples=args.rows + 2000,
        n_features=args.features,
        n_labels=args.labels,
        cardinality=3.0,
        r=5,
        random_state=0,
    )
    X, Y = data.X[: args.rows], data.candidates[: args.rows]
    before = peak_gigabytes()
    start = time.perf_counter()
    model = Sieve().fit(X, Y)
    seconds = time.perf_counter() - start
    peak = peak_gigabytes()
    truth, new = data.y_true[: args.rows], data.X[args.rows :]
    quality = average_precision(data.y_true[args.rows :], model.decision_function(new))
    found = noise_auc(truth, Y, np.asarray(model.label_confidence_))
    print(f"{args.rows} x {args.features}, {args.labels} labels: {seconds:.0f} s")
    print(f"peak memory {peak:.2f} GB, of which {before:.2f} GB before the fit")
    print(f"average precision {quality:.3f} on test rows, noise AUC {found:.3f}")


if __name__ == "__main__":
    main()
