/**
 * Plugins of StrykerJS: a checker that lets through the mutants of the sample alone (TROUPE_MUTANTS names the file with their keys), and a
 * reporter that keeps what became of each.
 */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { PluginKind } from '@stryker-mutator/api/plugin';

export const keyOf = ({ fileName, location: { start, end }, mutatorName, replacement }) =>
  JSON.stringify([
    relative(process.cwd(), fileName),
    start.line,
    start.column,
    end.line,
    end.column,
    mutatorName,
    replacement,
  ]);

class SampleChecker {
  async init() {
    this.sample = new Set(JSON.parse(readFileSync(process.env.TROUPE_MUTANTS, 'utf8')));
  }
  async check(mutants) {
    return Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        this.sample.has(keyOf(mutant)) ? { status: 'passed' } : { status: 'compileError', reason: 'not in the sample' },
      ]),
    );
  }
}

/** The result of each mutant, as soon as it is known. */
export const tested = [];
class SampleReporter {
  onMutantTested(result) {
    tested.push(result);
  }
}

export const strykerPlugins = [
  { kind: PluginKind.Checker, name: 'sample', injectableClass: SampleChecker },
  { kind: PluginKind.Reporter, name: 'sample', injectableClass: SampleReporter },
];
