"""Settings: two files of SQLite, one for Django's tables and one for the jobs."""

from pathlib import Path

import django

BASE = Path(__file__).resolve().parent.parent

SECRET_KEY = "only for this example"
DEBUG = True
USE_TZ = True
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE / "db.sqlite3"}}

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    *(["django_tasks"] if django.VERSION < (6, 0) else []),  # the backport, for Django before 6
    "headrace.django",
    "shop",
]

TASKS = {
    "default": {
        "BACKEND": "headrace.django.HeadraceBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "store": f"sqlite:///{BASE / 'jobs.db'}",
            "database": "default",  # a job is enqueued if its transaction commits
        },
    }
}
