"""Who asks, and what they may do."""

import ipaddress
from dataclasses import dataclass
from typing import Protocol

from fastapi import Request

from jobs.choices import Role
from jobs.errors import NotAllowedError


class Owned(Protocol):
    """A job."""

    @property
    def owner(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who asks, by its token; or anybody who reaches the address, where no token is needed."""

    name: str  # the owner of the jobs that it submits
    role: Role
    actor: str  # in the log of actions: with the address
    token_id: int | None = None  # of a token of `kvjobs tokens`
    max_jobs: int | None = None  # that it may have open at a time; None: any number
    max_bytes: int | None = None  # of an upload; None: as the dashboard allows. `access` refuses longer ones

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR

    def may_act_on(self, job: Owned) -> bool:
        """Whether it may change a job. Names of tokens are no names of users, so no other job has its name."""
        is_own = self.token_id is not None and job.owner == self.name
        return self.is_operator or (is_own and self.role.includes(Role.PRODUCER))


def visitor_of(request: Request) -> Visitor:
    """Who sent a request; on the pages that everybody may see (`access.OPEN_PATHS`) nobody, who may only look."""
    found = getattr(request.state, "visitor", None)
    return found if isinstance(found, Visitor) else Visitor(name="nobody", role=Role.VIEWER, actor="nobody")


def require(request: Request, role: Role) -> Visitor:
    """The visitor, who has this role or a higher one. Raises NotAllowedError."""
    visitor = visitor_of(request)
    if not visitor.role.includes(role):
        raise NotAllowedError(too_low(visitor, role))
    return visitor


def require_own(request: Request, job: Owned) -> Visitor:
    """The visitor, who may change this job. Raises NotAllowedError."""
    visitor = require(request, Role.PRODUCER)
    if not visitor.may_act_on(job):
        whose = f"belongs to {job.owner}" if job.owner else "has no owner"
        raise NotAllowedError(
            f"this job {whose}, and the token {visitor.name} has the role {visitor.role}, which acts on its own jobs "
            f"alone; this needs the role {Role.OPERATOR}"
        )
    return visitor


def too_low(visitor: Visitor, role: Role) -> str:
    """The sentence that refuses a visitor whose role is too low."""
    return (
        f"the token {visitor.name} has the role {visitor.role}, and this needs the role {role}; ask who runs it for "
        f"such a token: kvjobs tokens add NAME --role {role}"
    )


def where_from(request: Request) -> str:
    """` on this machine`, or `, from 10.0.0.1`: what the log puts behind a name."""
    host = request.client.host if request.client else "unknown"
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    return " on this machine" if is_here else f", from {host}"
