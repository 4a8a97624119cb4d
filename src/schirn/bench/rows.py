"""The rows of a benchmark: one flat JSON object per finished cell, one line each.

A cell is one data set, noise level, method, fold and seed. Its row has all of these fields:

=================  ===========================================================================
``format``         1, the version of this format
``key``            content key of the cell, 40 hex digits
``dataset``        name of the set; the stem of the file for a set given as a file
``r``              wrong labels per row (a share for noise "rate"); null: own candidates
``noise``          "legacy", "exact", "rate", "label", "feature", or "own" where r is null
``noise_seed``     start of the noise; null for "own"
``method``         class name, import path as given, or the user's name for a variant
``sees_truth``     true for a method that is trained on the true labels (``OracleRidge``)
``tuning``         what was asked: "none", "candidates" or "oracle"
``oracle``         true where parameters were in fact chosen on true labels; never hide this
``features``       "raw" or "auto"
``split``          "kfold" or "stored"
``seed``           seed of the folds and of the method
``folds``          number of folds
``fold``           0, 1, ...
``status``         "done", "failed", "timeout" or "skipped"
``reason``         one sentence where the status is not "done", else null
``metrics``        object of name to number or null (undefined); empty unless done:
                   "average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error"
                   on the test rows in the field's convention (shares, not percent; Hamming loss
                   of the method's own ``predict``), and "noise_auc", "noise_precision",
                   "noise_recall" on the training candidates
``params``         parameters set by the benchmark: fixed, recommended and chosen ones
``grid``           the grid that was searched, or null
``tune_seconds``   search, without the final fit; null unless done, as the next two
``fit_seconds``    final fit on the training rows of the fold
``predict_seconds``  scores of the test rows
``peak_memory_mb``   peak resident memory of the process during the cell, MiB; null if unknown
``n_train``, ``n_test``, ``n_features``, ``n_labels``   sizes; null for a set that is absent
``data_sha256``    checksum of features, truth and own candidates; null for an absent set
``scores``         path of the scores of the test rows, relative to the folder, or null
``versions``       object: schirn, python, numpy, scipy, scikit-learn
``threads``        threads of the linear algebra
``host``           machine and process
``finished``       seconds since 1970
``traceback``      text for a failed cell, else null
=================  ===========================================================================

Everything but the seconds, the memory, ``threads``, ``host``, ``finished`` and ``versions`` is the
same whenever and wherever a cell is run. `read_rows` gives one row per cell, the newest.
"""

FORMAT = 1
STATUSES = ("done", "failed", "timeout", "skipped")
