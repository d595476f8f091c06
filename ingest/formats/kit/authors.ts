/** The kind of a message's author in a log of names: a member of the team, a person or prompt outside it, or the environment. */

export type AuthorKind = 'agent' | 'user' | 'environment';

const PEOPLE = new Set(['user', 'human', 'system']);
const SURROUNDINGS = new Set(['environment', 'env', 'terminal', 'computerterminal']);

/** The author's name without a suffix in brackets: `Orchestrator (-> X)` is Orchestrator. */
export const bareName = (name: string): string => name.replace(/\([^()]*\)\s*$/, '').trim() || name;

/** What a name stands for, whatever its case and punctuation. */
export function kindOf(speaker: string): AuthorKind {
  const word = speaker.toLowerCase().replace(/[^a-z]/g, '');
  return PEOPLE.has(word) ? 'user' : SURROUNDINGS.has(word) ? 'environment' : 'agent';
}
