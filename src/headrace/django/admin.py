"""Jobs in the admin: a list and a page for each, read-only but for reviving and cancelling."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from headrace.django.checks import backends
from headrace.django.models import Job
from headrace.errors import HeadraceError
from headrace.ops import act, look
from headrace.ops.audit import acting_as
from headrace.ops.documents import moment, value_of
from headrace.ops.selection import Selection
from headrace.records import Filter, Snapshot, State
from headrace.values.codec import decode_error
from headrace.values.glob import is_glob

VERBS = {"revive": act.REVIVE, "cancel": act.CANCEL}
"""What staff may do to jobs, with the permission of the same name."""
ON_A_PAGE = 50
MOST_AT_ONCE = 500


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """Jobs of all backends of headrace, one backend at a time."""

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="headrace_job_changelist"),
            path("<path:job_id>/", view(self.job_view), name="headrace_job_change"),
        ]

    # -- pages --

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """The jobs that fit what the query asks for, newest first; a POST does something to some of them."""
        backend = self._backend(request)
        if request.method == "POST":
            return self._act(request, backend)
        given = {name: request.GET.get(name, "").strip() for name in ("state", "queue", "task", "cursor")}
        page: Any = None
        try:
            page = look.jobs(
                backend.app,
                Selection(
                    wanted=_filter(**given),
                ),
            )
        except (HeadraceError, ValueError) as error:
            messages.error(request, str(error))
        more = "" if page is None or page.cursor is None else page.cursor
        following = urlencode({**given, "backend": backend.alias, "cursor": more}) if more else ""
        context = {
            "jobs": [_row(job) for job in ([] if page is None else page.jobs)],
            "given": given,
            "states": [state.value for state in State],
            "following": following,
            **self._context(request, backend, "Jobs"),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/headrace/job/list.html", context)

    def job_view(self, request: Any, job_id: str) -> Any:
        """All there is to know about a job."""
        backend = self._backend(request)
        store = backend.app.store
        (found,) = store.run(store.get([job_id]))
        if found is None:
            raise Http404(f"There is no job {job_id}.")
        details = look.job(backend.app, job_id)
        context = {
            "job": _row(details.job),
            "arguments": json.dumps(value_of(details.job.body), indent=2, ensure_ascii=False),
            "outcome": json.dumps(value_of(details.job.result), indent=2, ensure_ascii=False),
            "error": decode_error(details.job.error) if details.job.error else None,
            "runs": details.attempts,
            "history": [(moment(line.at), line.what, line.detail, line.worker) for line in details.history or ()],
            **self._context(request, backend, f"Job {job_id}"),
        }
        return TemplateResponse(request, "admin/headrace/job/job.html", context)

    def _backend(self, request: Any) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        found = {backend.alias: backend for backend in backends()}
        alias = request.GET.get("backend") or ("default" if "default" in found else next(iter(found), ""))
        if alias not in found:
            raise Http404(f"No backend of headrace has the alias {alias!r}.")
        return found[alias]

    def _context(self, request: Any, backend: Any, title: str) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "backend": backend.alias,
            "backends": [each.alias for each in backends()],
            "verbs": [name for name in VERBS if request.user.has_perm(f"headrace.{name}_job")],
        }

    # -- acting --

    def _act(self, request: Any, backend: Any) -> Any:
        verb, ids = request.POST.get("action", ""), request.POST.getlist("job")
        if verb not in VERBS or not request.user.has_perm(f"headrace.{verb}_job"):
            raise PermissionDenied
        if not ids:
            messages.warning(request, "No job was chosen.")
        else:
            self._tell(request, VERBS[verb], backend, ids[:MOST_AT_ONCE])
        back, query = reverse(f"{self.admin_site.name}:headrace_job_changelist"), request.META.get("QUERY_STRING", "")
        return HttpResponseRedirect(f"{back}?{query}" if query else back)

    def _tell(self, request: Any, verb: act.Verb, backend: Any, ids: list[str]) -> None:
        try:
            with acting_as(request.user.get_username()):
                acted = act.to_jobs(backend.app, verb, ids)
        except HeadraceError as error:
            messages.error(request, str(error))
            return
        done = sum(each.ok for each in acted)
        if done:
            messages.success(request, f"{done} {'job' if done == 1 else 'jobs'} {verb.done}.")
        for each in [each for each in acted if not each.ok][:5]:
            messages.warning(request, f"Job {each.id}: {each.outcome}.")


def _filter(state: str, queue: str, task: str, cursor: str) -> Filter:
    return Filter(
        states=(State(state),) if state else (),
        queue=queue or None,
        task=task if task and not is_glob(task) else None,
        task_like=task if is_glob(task) else None,
        limit=ON_A_PAGE,
        after=cursor or None,
    )


def _row(job: Snapshot) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "priority": job.priority,
        "created": moment(job.created),
        "due": moment(job.due),
        "started": moment(job.started),
        "finished": moment(job.finished),
        "attempts": job.attempts,
        "crashes": job.crashes,
        "worker": job.worker,
        "group": job.group or "",
        "tags": ", ".join(job.tags),
    }
