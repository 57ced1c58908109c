from sklearn.utils.estimator_checks import parametrize_with_checks

import pytest
from toppush import TopPush


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@parametrize_with_checks([TopPush(tol=1e-14, max_iter=100000)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
