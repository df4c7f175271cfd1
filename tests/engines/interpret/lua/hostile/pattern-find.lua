-- expect: deadline
function F() return string.find(('a'):rep(26), ('a?'):rep(26) .. ('a'):rep(26)) end
