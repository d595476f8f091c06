/** The documents that are searched, and the search. */

const PAGES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  lamp: { colour: 'red', price: 'low', shop: 'north' },
  chair: { colour: 'blue', price: 'low', shop: 'south' },
  desk: { colour: 'black', price: 'high', shop: 'north' },
  radio: { colour: 'white', price: 'high', shop: 'south' },
  phone: { colour: 'red', price: 'low', shop: 'south' },
  kettle: { colour: 'blue', price: 'high', shop: 'north' },
};
export const DOCUMENTS = Object.entries(PAGES).flatMap(([page, fields]) =>
  Object.entries(fields).map(([field, value]) => `${page} ${field} ${value}`),
);
const FOUND = 3;

/** The documents with the most words of the query, the first of equals. */
export function search(query: string): readonly string[] {
  const words = new Set(query.split(' '));
  const hits = (document: string): number => document.split(' ').filter((word) => words.has(word)).length;
  return [...DOCUMENTS].sort((a, b) => hits(b) - hits(a)).slice(0, FOUND);
}

/** Words that questions have in place of the fields of the documents. */
export const OTHER_WORDS: Readonly<Record<string, string>> = { colour: 'hue', price: 'cost', shop: 'seller' };
