/**
 * The failure modes of MAST (arXiv 2503.13657) and its released taxonomy, by code. Titles moved between versions: an older 3.3 includes
 * "no verification", which is 3.2 now. So a label must be stored with the version of the taxonomy it was made with.
 */

export const MAST_MODES = {
  '1.1': 'Disobey task specification',
  '1.2': 'Disobey role specification',
  '1.3': 'Step repetition',
  '1.4': 'Loss of conversation history',
  '1.5': 'Unaware of termination conditions',
  '2.1': 'Conversation reset',
  '2.2': 'Fail to ask for clarification',
  '2.3': 'Task derailment',
  '2.4': 'Information withholding',
  '2.5': "Ignored other agent's input",
  '2.6': 'Reasoning-action mismatch',
  '3.1': 'Premature termination',
  '3.2': 'No or incomplete verification',
  '3.3': 'Incorrect verification',
} as const;

export const MAST_CATEGORIES = {
  FC1: 'System design issues',
  FC2: 'Inter-agent misalignment',
  FC3: 'Task verification',
} as const;

export type MastCode = keyof typeof MAST_MODES;
export type MastCategory = keyof typeof MAST_CATEGORIES;

/** The code without its prefix; null for one that is not in the taxonomy. */
export function mastCode(text: string): MastCode | null {
  const code = text.replace(/^FM-/, '');
  return Object.hasOwn(MAST_MODES, code) ? (code as MastCode) : null;
}

export function mastCategory(code: MastCode): MastCategory {
  return `FC${code[0]}` as MastCategory;
}
