"""Settings of the project that the tests are run in: SQLite in memory, and a store that each test chooses."""

from __future__ import annotations

import os

import django

SECRET_KEY = "for tests"
DEBUG = "SHOP_DEBUG" in os.environ
USE_TZ = True
TIME_ZONE = "Europe/Zurich"
ROOT_URLCONF = "project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALLOWED_HOSTS = ["*"]

BACKPORT = ["django_tasks"] if django.VERSION < (6, 0) else []
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin",
    *BACKPORT,
    "headrace.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", ":memory:")}}
if "SHOP_POSTGRES" in os.environ:
    import psycopg

    _known = psycopg.conninfo.conninfo_to_dict(os.environ["SHOP_POSTGRES"])
    DATABASES["postgres"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _known["dbname"],
        "USER": _known.get("user", ""),
        "PASSWORD": _known.get("password", ""),
        "HOST": _known.get("host", ""),
        "PORT": _known.get("port", ""),
    }
TASKS = {
    "default": {
        "BACKEND": "headrace.django.HeadraceBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"store": os.environ.get("SHOP_STORE", "sqlite:///:memory:")},
    }
}
