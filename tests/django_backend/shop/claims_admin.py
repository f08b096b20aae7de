"""Jobs in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User
from django.urls import reverse
from shop import tasks
from shop.cases import ShopCase

from headrace.ops.audit import trail

LIST = "admin:headrace_job_changelist"


class Admin(ShopCase):
    def log_in(self, *permissions: str, staff: bool = True) -> None:
        user = User.objects.create_user("ada", is_staff=staff)
        own = Permission.objects.filter(content_type__app_label="headrace")
        user.user_permissions.set(own.filter(codename__in=permissions))
        self.assertEqual(user.user_permissions.count(), len(permissions))
        self.client.force_login(user)

    def listed(self, **query: str) -> str:
        return str(self.client.get(reverse(LIST), query).content.decode())

    def act(self, action: str, *ids: str) -> Any:
        return self.client.post(reverse(LIST), {"action": action, "job": ids}, follow=True)

    def test_a_job_has_permissions_to_view_revive_and_cancel_it_and_no_others(self) -> None:
        names = Permission.objects.filter(content_type__app_label="headrace").values_list("codename", flat=True)
        self.assertEqual(set(names), {"view_job", "revive_job", "cancel_job"})

    def test_staff_with_the_permission_sees_jobs_and_no_buttons(self) -> None:
        self.log_in("view_job")
        result = tasks.add.enqueue(1)
        page = self.listed()
        self.assertIn(result.id, page)
        self.assertNotIn("<button", page.partition("result_list")[0].partition("changelist-form")[2])
        self.assertEqual(self.act("cancel", result.id).status_code, 403)
        self.assertEqual(self.app.job(result.id).state, "ready")
        self.assertIn("headrace/job/", self.client.get(reverse("admin:index")).content.decode())

    def test_others_see_nothing(self) -> None:
        self.log_in()
        self.assertEqual(self.client.get(reverse(LIST)).status_code, 403)
        self.client.logout()
        self.assertEqual(self.client.get(reverse(LIST)).status_code, 302)

    def test_jobs_are_revived_and_cancelled_in_the_name_of_the_user(self) -> None:
        self.log_in("view_job", "revive_job", "cancel_job")
        failed, waiting = self.worked(tasks.refuse.enqueue()), tasks.add.enqueue(1)
        said = self.act("cancel", waiting.id).content.decode()
        self.assertIn("1 job cancelled.", said)
        self.assertIn("1 job revived.", self.act("revive", failed.id).content.decode())
        self.assertEqual([self.app.job(each.id).state for each in (failed, waiting)], ["ready", "cancelled"])
        self.assertIn("no-such-job: not found", self.act("revive", "no-such-job").content.decode())
        self.assertEqual({(line.who, line.what) for line in trail(self.app)}, {("ada", "cancel"), ("ada", "revive")})
        self.assertIn("No job was chosen", self.act("cancel").content.decode())
        self.assertEqual(self.act("delete", waiting.id).status_code, 403)

    def test_a_get_changes_nothing_and_a_post_needs_its_token(self) -> None:
        self.log_in("view_job", "cancel_job")
        result = tasks.add.enqueue(1)
        self.client.get(reverse(LIST), {"action": "cancel", "job": result.id})
        self.client.handler.enforce_csrf_checks = True
        self.assertEqual(self.act("cancel", result.id).status_code, 403)
        self.assertEqual(self.app.job(result.id).state, "ready")

    def test_the_list_is_filtered_and_paged(self) -> None:
        self.log_in("view_job")
        mail = tasks.send.enqueue("eu")
        others = [tasks.add.enqueue(number).id for number in range(60)]
        page = self.listed(task="shop.tasks.a*", state="ready", queue="default")
        self.assertEqual(page.count('href="/admin/headrace/job/0'), 50)
        self.assertNotIn(mail.id, page)
        following = page.partition('<a href="?')[2].partition('"')[0].replace("&amp;", "&")
        second = self.client.get(f"{reverse(LIST)}?{following}").content.decode()
        self.assertEqual(second.count('href="/admin/headrace/job/0'), 10)
        self.assertIn(others[0], second)
        self.assertIn(mail.id, self.listed(queue="mail"))
        self.assertIn("No such jobs", self.listed(state="failed"))
        for wrong in ({"state": "nonsense"}, {"cursor": "nonsense"}):
            self.assertEqual(self.client.get(reverse(LIST), wrong).status_code, 200)
        self.assertEqual(self.client.get(reverse(LIST), {"backend": "other"}).status_code, 404)

    def test_a_jobs_page_shows_what_it_did_and_nothing_of_it_is_html(self) -> None:
        self.log_in("view_job", "revive_job")
        result = self.worked(tasks.echo.enqueue("<script>alert(1)</script>"))
        failed = self.worked(tasks.flaky.using(retries=0).enqueue(9))
        page = self.client.get(reverse("admin:headrace_job_change", args=[result.id])).content.decode()
        self.assertNotIn("<script>alert", page)
        self.assertIn("&lt;script&gt;alert(1)", page)
        page = self.client.get(reverse("admin:headrace_job_change", args=[failed.id])).content.decode()
        self.assertIn("ValueError: attempt 1", page)
        self.assertEqual(self.client.get(reverse("admin:headrace_job_change", args=["none"])).status_code, 404)
