"""What a job asks for, done with an open model: translation, scoring, reranking. Text in, outcomes out."""
