/**
 * As much of a document as the page draws on: elements with attributes, children, listeners. It parses nothing, so what a page sets
 * as text can only be text here, and anything that would be read as HTML does not exist.
 */

export class Element {
  readonly attributes = new Map<string, string>();
  readonly listeners = new Map<string, (event: object) => void>();
  children: (Element | string)[] = [];
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }
  getAttribute(name: string): string | null {
    return this.attributes.get(name) ?? null;
  }
  removeAttribute(name: string): void {
    this.attributes.delete(name);
  }
  addEventListener(name: string, listener: (event: object) => void): void {
    this.listeners.set(name, listener);
  }
  append(...children: (Element | string)[]): void {
    for (const child of children) {
      if (typeof child !== 'string' && !(child instanceof Element))
        throw new Error(`appended ${typeof child} to ${this.name}`);
      this.children.push(child);
    }
  }
  replaceChildren(...children: (Element | string)[]): void {
    this.children = [];
    this.append(...children);
  }
  get textContent(): string {
    return this.children.map((child) => (typeof child === 'string' ? child : child.textContent)).join('');
  }
  set textContent(text: string) {
    this.children = [text];
  }
  get childElementCount(): number {
    return this.children.filter((child) => child instanceof Element).length;
  }
  set hidden(value: boolean) {
    if (value) this.attributes.set('hidden', '');
    else this.attributes.delete('hidden');
  }
  get hash(): string {
    return this.getAttribute('href') ?? '';
  }
  disabled = false;
  value = '';
  focus(): void {}
  click(): void {
    this.listeners.get('click')?.({ target: this, preventDefault: () => {} });
  }
  /** Elements of a name below this one, in order. */
  all(name: string): Element[] {
    return this.children.flatMap((child) =>
      child instanceof Element ? [...(child.name === name ? [child] : []), ...child.all(name)] : [],
    );
  }
  querySelector(name: string): Element | null {
    return this.all(name)[0] ?? null;
  }
  querySelectorAll(name: string): Element[] {
    return this.all(name);
  }
}

export type Paper = {
  readonly main: Element;
  readonly status: Element;
  /** What the page expects to find around it. */
  readonly globals: Readonly<Record<string, unknown>>;
  readonly location: { hash: string };
  /** Goes to an address of the page. */
  readonly go: (hash: string) => void;
};

export function paper(fetch: (path: string, init: RequestInit) => Promise<unknown>): Paper {
  const [main, status] = [new Element('main'), new Element('p')];
  const links = ['#/releases', '#/episodes'].map((href) => {
    const link = new Element('a');
    link.setAttribute('href', href);
    return link;
  });
  const location = { hash: '' };
  const listeners = new Map<string, () => void>();
  const document = {
    title: '',
    querySelector: (selector: string) => (selector === '#main' ? main : status),
    querySelectorAll: () => links,
    createElement: (name: string) => new Element(name),
    createElementNS: (_: string, name: string) => new Element(name),
  };
  return {
    main,
    status,
    location,
    globals: {
      document,
      location,
      history: {
        pushState: (_state: unknown, _title: string, hash: string) => {
          location.hash = hash;
        },
      },
      fetch,
      addEventListener: (name: string, listener: () => void) => listeners.set(name, listener),
      dispatchEvent: ({ type }: Event) => listeners.get(type)?.(),
    },
    go: (hash) => {
      location.hash = hash;
      listeners.get('hashchange')?.();
    },
  };
}
