"""Orders."""

from django.db import models


class Order(models.Model):
    """An order, and whether its confirmation was sent."""

    email = models.EmailField()
    confirmed = models.BooleanField(default=False)
