"""What a policy and a click model must keep, as checks that anyone can run on their own."""

from clickbandit.testing.click_models import check_click_model as check_click_model
from clickbandit.testing.policies import check_policy as check_policy
