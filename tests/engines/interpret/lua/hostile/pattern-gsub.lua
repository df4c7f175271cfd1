-- expect: deadline
function F() return (string.gsub(('a'):rep(500), '(a-)(a-)(a-)(a-)b', '')) end
