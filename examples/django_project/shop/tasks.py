"""Tasks. `manage.py headrace worker` finds the module `tasks` of each installed app."""

from headrace.django import task
from shop.models import Order


@task(queue_name="mail", retries=5, lane="{email}")
def confirm(order: int, email: str) -> str:
    """Confirm an order. It may run twice, and then the second run changes nothing."""
    Order.objects.filter(pk=order).update(confirmed=True)
    return f"order {order} confirmed to {email}"
