"""Addresses."""

from django.urls import path

from shop import views

urlpatterns = [path("buy/", views.buy), path("orders/<int:order>/<task>/", views.look)]
