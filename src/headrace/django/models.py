"""The model that the admin lists: a job. It has no table, as jobs live in the store."""

from __future__ import annotations

from django.db import models


class Job(models.Model):
    """Carries the name and the permissions of jobs in the admin: view, revive and cancel."""

    id = models.CharField(primary_key=True, max_length=200)

    class Meta:
        managed = False
        app_label = "headrace"
        default_permissions = ("view",)
        permissions = (("revive_job", "Can revive job"), ("cancel_job", "Can cancel job"))

    def __str__(self) -> str:
        return str(self.pk)
