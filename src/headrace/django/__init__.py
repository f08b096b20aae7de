"""headrace as the backend of Django's tasks: `django.tasks` of Django 6, or the `django-tasks` backport before it.

    INSTALLED_APPS = [..., "headrace.django"]
    TASKS = {"default": {"BACKEND": "headrace.django.HeadraceBackend", "OPTIONS": {"store": "sqlite:///jobs.db"}}}

docs/django.md leads from here to production.
"""

from headrace.django.backend import HeadraceBackend
from headrace.django.task import task

__all__ = ["HeadraceBackend", "task"]
