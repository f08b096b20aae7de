"""Two views: buy something, and look what became of it."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.tasks import confirm


@csrf_exempt
@require_POST
def buy(request: HttpRequest) -> JsonResponse:
    """Write an order and enqueue its confirmation: both, or none of them."""
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"])
        result = confirm.enqueue(order.pk, email=order.email)
        if not order.email.endswith("@example.org"):
            transaction.set_rollback(True)
            return JsonResponse({"error": "we deliver to example.org alone"}, status=400)
    return JsonResponse({"order": order.pk, "task": result.id})


def look(request: HttpRequest, order: int, task: str) -> JsonResponse:
    """An order, and the state of the task that confirms it."""
    found, result = get_object_or_404(Order, pk=order), confirm.get_result(task)
    return JsonResponse({"confirmed": found.confirmed, "status": result.status, "attempts": result.attempts})
