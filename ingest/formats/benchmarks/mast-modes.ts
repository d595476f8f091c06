/** The fourteen failure modes of MAST, by code, and by the names under which they go. arXiv 2503.13657. */

export const MODES: ReadonlyMap<string, string> = new Map([
  ['1.1', 'Disobey Task Specification'],
  ['1.2', 'Disobey Role Specification'],
  ['1.3', 'Step Repetition'],
  ['1.4', 'Loss of Conversation History'],
  ['1.5', 'Unaware of Termination Conditions'],
  ['2.1', 'Conversation Reset'],
  ['2.2', 'Fail to Ask for Clarification'],
  ['2.3', 'Task Derailment'],
  ['2.4', 'Information Withholding'],
  ['2.5', "Ignored Other Agent's Input"],
  ['2.6', 'Reasoning-Action Mismatch'],
  ['3.1', 'Premature Termination'],
  ['3.2', 'No or Incomplete Verification'],
  ['3.3', 'Incorrect Verification'],
]);

const words = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z ]+/g, ' ')
    .trim()
    .split(/\s+/)
    .filter((word) => word !== 's' && word !== 'the')
    .join(' ');

const BY_NAME = new Map([
  ...[...MODES].map(([code, name]) => [words(name), code] as const),
  [words('Action-Reasoning Mismatch'), '2.6'],
  [words('Unaware of Stopping Conditions'), '1.5'],
]);

/** The code of a mode by its name, in any case and punctuation; null for a mode of an earlier round that has none. */
export const failureMode = (name: string): string | null => BY_NAME.get(words(name)) ?? null;
