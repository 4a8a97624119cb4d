"""The PECOS part of `benchmarks.engines`; runs in the environment of PECOS, without this library.

python pecos_engine.py train FOLDER     (X.npz and Y.npz in FOLDER; writes FOLDER/model)
python pecos_engine.py score FOLDER     (X.npz and cells.npz; writes scores.npz of these cells)
python pecos_engine.py rank FOLDER      (X.npz; writes scores.npz of the best labels)
"""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel


def main(step: str, folder: Path) -> None:
    """Train, or score rows with the model in the folder."""

    def read(name: str) -> sp.csr_matrix:
        return sp.csr_matrix(sp.load_npz(folder / f"{name}.npz"), dtype=np.float32)

    X = read("X")
    if step == "train":
        Y = read("Y")
        chain = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
        XLinearModel.train(X, Y, C=chain, threads=1).save(str(folder / "model"))
        return
    model = XLinearModel.load(str(folder / "model"))
    if step == "score":
        scores = model.predict(X, selected_outputs_csr=read("cells"), threads=1)
    else:
        scores = model.predict(X, only_topk=10, beam_size=20, threads=1)
    sp.save_npz(folder / "scores.npz", sp.csr_matrix(scores))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
