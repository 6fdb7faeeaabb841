"""The sequential generator of PrAda-GAN, trained by likelihood (`likelihood`) or against a critic (`adversarial`)."""
