/** What a method is held against: a function of published code, where that stands, and what both are asked. */
import type { Draw } from './draw.ts';

export type Input = Readonly<Record<string, unknown>>;

/** Packages of PyPI, at the versions of `proofs/sources.txt`, and repositories of GitHub, at these commits. */
export const COMMITS = {
  'Gen-Verse/CURE': '69fe1742b4c53b75ce3d7d1c8ea3762a3f93886f',
  'SALT-NLP/DyLAN': '572341b56a0fdf1db07935295f177ae9d10986bb',
  'TsinghuaC3I/MARTI': 'a2fe2c7b9ec46cf24769c90575c51d847f41d04e',
  'chenyiqun/MMOA-RAG': 'aa1106dfa7be52f5e6bab298d9e72d70fb34bc92',
  'chenyiqun/UnityMAS-O': '7f1616ab812a8413f8baa9fe3738e7de9f487aad',
  'jincan333/MAS-TTS': 'ae8f961818d47860cfbde256b72cbb5c326e6b85',
  'jwliao-ai/MARFT': '1beacdb5b8facc70638177ed22874cf59e52a6b9',
  'langfengQ/DrMAS': '19c632bc0f75730b6db98d90b5035ee9bb7f66d1',
  'microsoft/rStar': 'ecbfb943e202b4ed017d2d35f2029917b27db4cd',
  'milad1378yz/MASPRM': '9480f7422ffbab799e449df99dd3a7895e5041c3',
  'mzf666/MATPO': '3c41d62d96963ac0512573f9d2e51596720ab379',
  'pettingllms-ai/PettingLLMs': 'a054fb18b83f4dc7c1d49aba3b71669d1f93ca71',
  'thu-nics/MARS': '5979f75c8fa5354356a461805ed0a984cf3b2dfd',
  'ziyuwan/ReMA-public': '24b5b47601c67302aea455234e66b8ff6e93f9d2',
} as const;
export const PACKAGES = ['comlrl', 'trl', 'verl'] as const;

export type Project = keyof typeof COMMITS | (typeof PACKAGES)[number];

export type MethodSource = {
  readonly method: string;
  readonly project: Project;
  /** In the project's folder, the one with the formula first. */
  readonly files: readonly string[];
  /** The function of published_*.py that runs them. */
  readonly published: string;
  /** Further arguments of that function. */
  readonly options?: readonly unknown[];
  /** Largest difference allowed, of numbers above 1 relative to them. */
  readonly tolerance: number;
  readonly draw: (draw: Draw) => Input;
  /** What ours is asked where it is not what they are. */
  readonly ours?: (input: never) => Input;
  /** The part or form of our output that theirs has. */
  readonly compared?: (output: never, input: never) => unknown;
};

/** Their code counts in double precision. */
export const DOUBLE = 1e-9;
/** Their code counts in single precision. */
export const SINGLE = 1e-4;
