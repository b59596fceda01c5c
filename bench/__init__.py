"""Speed, as ratios measured side by side in one run. Never asserted in a test."""
