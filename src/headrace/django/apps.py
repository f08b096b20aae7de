"""The entry for INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig


class HeadraceConfig(AppConfig):
    """`headrace.django`: the command `manage.py headrace`, the system checks, and the jobs in the admin."""

    name = "headrace.django"
    label = "headrace"
    verbose_name = "headrace"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from headrace.django import checks  # noqa: PLC0415  (it needs the other apps)

        checks.register()
