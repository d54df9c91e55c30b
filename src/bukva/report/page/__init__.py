"""The pages of reports: self-contained HTML files about one result and about all experiments."""
