"""From `views.sql` to a maintenance plan, its cost and its explanation."""
