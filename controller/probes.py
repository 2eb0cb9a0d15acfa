"""The pages of a manager: /metrics, /healthz, /readyz."""

from collections.abc import Callable, Iterable
from typing import Any

from controller.accessreviews import AccessReviewer
from controller.health import Check, Failing, asked, report
from controller.informer import Informer
from controller.leases import Elector
from controller.metrics import Metrics
from controller.server import Answer, Guard, Page, Query
from controller.sources import SourceError

OVERDUE_SECONDS = 20.0
"""How long after its lease a leader may still work before it counts as stuck."""


def metrics_page(metrics: Metrics) -> Page:
    """Return the page that Prometheus reads."""
    content_type = "text/plain; version=0.0.4; charset=utf-8"
    return lambda _tail, _query: Answer(metrics.exposition(), content_type=content_type)


def scrapers_only(reviewer: AccessReviewer) -> Guard:
    """Return the guard that lets those in whom the API server lets get the page."""

    async def guard(method: str, path: str, authorization: str) -> Answer | None:
        refusal = await reviewer.refusal(method, path, authorization)
        return None if refusal is None else Answer(refusal.message.encode(), refusal.status)

    return guard


def health_page(name: str, checks: Callable[[], Iterable[Check]]) -> Page:
    """Return the page of a probe; `/NAME/CHECK` asks one check alone.

    Args:
        name: `healthz` or `readyz`.
        checks: what is asked, looked up at each request.
    """

    def page(tail: str, query: Query) -> Answer:
        verbose, exclude = asked(query)
        chosen = [check for check in checks() if tail in ("", check.name)]
        if not chosen:
            return Answer(f"there is no check {tail}\n".encode(), status=404)
        result = report(name, chosen, verbose=verbose, exclude=exclude)
        return Answer(result.text.encode(), status=200 if result.healthy else 503)

    return page


def leader_check(elector: Elector) -> Check:
    """Return a check that fails when the work of a leader goes on after its lease has passed.

    The tolerance is the one of Kubernetes' own controllers (client-go's HealthzAdaptor, as
    kube-controller-manager uses it).
    """

    def ask() -> Failing | None:
        overdue = elector.overdue_seconds
        if overdue <= OVERDUE_SECONDS:
            return None
        return Failing("the lease has passed and the work goes on", f"for {overdue:.0f} s")

    return Check("leader-election", ask)


def informer_check(informer: Informer[Any]) -> Check:
    """Return a check that holds while the informer's kind can be seen."""
    kind = informer.resource.full_name

    def ask() -> Failing | None:
        error = informer.last_error
        if error is not None:
            verb = error.verb if isinstance(error, SourceError) else "watch"
            return Failing(f"cannot {verb} {kind}", str(error))
        return None if informer.cache.synced else Failing(f"{kind} not listed yet")

    return Check(f"informer/{kind}", ask)
