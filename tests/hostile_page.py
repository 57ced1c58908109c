"""A report whose every text is an attack on the page, for the tests of pages and of browsers."""

import numpy as np

from toppush import report
from toppush.report.reasons import Bar, Card, Reasons

HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&{{7*7}}"


def hostile_page(n_rows=60):
    rng = np.random.default_rng(1410)
    positive = rng.random(n_rows) < 0.2
    scores = np.round(positive + rng.normal(size=n_rows), 2)
    alarms = report.first_false_alarms(positive, scores)
    X, names = np.c_[scores, -scores], [HOSTILE, "</svg>"]
    bar = Bar(HOSTILE, 0.3, 100.0)
    return report.build(
        positive,
        scores,
        title=HOSTILE,
        name=HOSTILE,
        preview=[{HOSTILE: HOSTILE}] * n_rows,
        features=report.Features.of(X, [1.0, 0.5], names, rows=alarms),
        reasons=Reasons([Card(1, 1, 0.5, True, 0.4, True, [bar], bar)], HOSTILE),
        rival=report.Rival(-scores, HOSTILE, HOSTILE),
        facts={HOSTILE: HOSTILE},
        cautions=[HOSTILE],
    )
