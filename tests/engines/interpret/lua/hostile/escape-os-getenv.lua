-- expect: script
function F() return os.getenv('HOME') end
