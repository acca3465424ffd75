"""What a policy, a click model and a store must keep, as checks that anyone can run on their own."""

from clickbandit.testing.click_models import check_click_model as check_click_model
from clickbandit.testing.policies import check_policy as check_policy
from clickbandit.testing.stores import check_store as check_store
