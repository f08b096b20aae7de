"""Tests of the shop: python manage.py test. No worker runs, and the jobs are in a store in memory."""

from django.test import TestCase

from shop.models import Order
from shop.tasks import confirm


class Orders(TestCase):
    """`testing()` follows the transactions of the views, not the one that Django has around each test."""

    def test_an_order_is_confirmed(self) -> None:
        with confirm.get_backend().app.testing() as t:
            self.client.post("/buy/", {"email": "ada@example.org"})
            t.assert_enqueued(confirm.native, email="ada@example.org")
            t.run_all()
        self.assertTrue(Order.objects.get().confirmed)

    def test_an_order_that_is_refused_leaves_no_job(self) -> None:
        with confirm.get_backend().app.testing() as t:
            self.assertEqual(self.client.post("/buy/", {"email": "ada@example.com"}).status_code, 400)
            t.assert_not_enqueued(confirm.native)
