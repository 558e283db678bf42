"""What operators look at: health now; metrics, admin and dashboard later."""
