"""Training in several processes: the job, what launches it, and how programs exchange gradients."""
