"""What operators look at: health, figures, and how these are made and shown. It knows no other room."""
