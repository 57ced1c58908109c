"""A report whose every text is an attack on the page, for the tests of pages and of browsers."""

import numpy as np

from toppush import report
from toppush.explain.reasons import Explanation, Reason
from toppush.report.contributions import Reasons

HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&{{7*7}}"


def hostile_page(n_rows=60):
    rng = np.random.default_rng(1410)
    positive = rng.random(n_rows) < 0.2
    scores = np.round(positive + rng.normal(size=n_rows), 2)
    alarms = report.first_false_alarms(positive, scores)
    X, names = np.c_[scores, -scores], [HOSTILE, "</svg>"]
    reasons = (Reason(HOSTILE, HOSTILE, 0.3),)
    why = Explanation(0, 0.5, 0.4, (), (), reasons, reasons, 3, is_typical=True)
    return report.build(
        positive,
        scores,
        title=HOSTILE,
        name=HOSTILE,
        preview=[{HOSTILE: HOSTILE}] * n_rows,
        model=report.ModelDetails(
            report.Features.of(X, [1.0, 0.5], names, rows=alarms),
            reasons=Reasons([why], [True], HOSTILE),
        ),
        baseline=report.Baseline(-scores, HOSTILE, HOSTILE),
        facts={HOSTILE: HOSTILE},
        cautions=[HOSTILE],
    )
