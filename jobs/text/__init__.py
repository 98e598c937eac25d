"""Values as text: formatted for people, as JSON and as CSV, without what could control a terminal."""
