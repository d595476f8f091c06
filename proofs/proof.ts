/** What a proof is: a check against a program of somebody else, which the tests cannot count on being there. */

export type Setting = {
  /** The quick form, as run before every change; otherwise the thorough one. */
  readonly short: boolean;
  /** A Python that has what `proofs/requirements.txt` names; empty for a proof that does not need it. */
  readonly python: string;
  /** An empty folder of this proof's own. */
  readonly scratch: string;
  readonly say: (line: string) => void;
};

export type Outcome = {
  readonly ok: boolean;
  readonly lines: readonly string[];
  /** What could not be proved, and how to get what was missing for it. */
  readonly skipped?: readonly string[];
};

export type Proof = {
  readonly name: string;
  /** `python`: a Python that has what `proofs/requirements.txt` names; `s3`: versitygw; `kafka`: Java and the jars of a broker. */
  readonly needs: readonly string[];
  readonly run: (setting: Setting) => Promise<Outcome>;
};

/** Lines of what held and what did not, each said as soon as it is known. `why`: said where it did not. */
export function checklist(say: Setting['say']) {
  const lines: string[] = [];
  let failed = 0;
  return {
    lines,
    check: (what: string, fine: boolean, why = ''): void => {
      if (!fine) failed += 1;
      lines.push(`${fine ? 'ok' : 'NOT OK'}  ${what}${fine || why === '' ? '' : `: ${why}`}`);
      say(lines.at(-1)!);
    },
    passed: (): boolean => failed === 0,
  };
}
