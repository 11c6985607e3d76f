// What this browser remembers of how the user wants the page; a browser that forbids it gets the usual.

export function kept(name, usual) {
  try {
    return localStorage.getItem(`spreeze-${name}`) ?? usual;
  } catch {
    return usual;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`spreeze-${name}`, value);
  } catch {
    // then it is forgotten with the page
  }
}
