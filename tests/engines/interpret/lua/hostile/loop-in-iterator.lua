-- expect: deadline
function F() for _ in function() return 1 end do end end
